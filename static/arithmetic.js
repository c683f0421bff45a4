// Quantities for the calculator of the rating page: text is parsed into numbers with units, and results are written as text.
// A unit is a factor and the powers of its base symbols; symbols that are not known here, such as "cells", are bases of their own.

const PREFIXES = { p: 1e-12, n: 1e-9, "µ": 1e-6, m: 1e-3, "": 1, k: 1e3 };
const BASES = ["L", "g", "mol", "M", "s", "m", "A", "V", "W", "Hz", "S", "Pa", "J", "Da"];
const OTHERS = { "%": [0.01, {}], cm: [0.01, { m: 1 }], min: [60, { s: 1 }], h: [3600, { s: 1 }], d: [86400, { s: 1 }], day: [86400, { s: 1 }], days: [86400, { s: 1 }] };
const EXPANDED = { M: { mol: 1, L: -1 }, Da: { g: 1, mol: -1 } };
const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const NUMBER = /^(?:\d{1,3}(?:[,\u00a0\u202f]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|^\.\d+/;
const SYMBOL = /^[\p{L}%°Ω][\p{L}%°]*(?:[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|\.u\.)?/u;
const UNIT = /^(?:\/(?=\p{L}))?[\p{L}%°Ω][\p{L}%°]*(?:[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+|\.u\.)?(?:[·/](?=\p{L})[\p{L}%°]+[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*)*/u;

export class ArithmeticError extends Error {}
const fail = (message) => { throw new ArithmeticError(message); };

function parsePower(text) {
  return Number([...text].map((sign) => (sign === "⁻" ? "-" : SUPERSCRIPTS.indexOf(sign))).join("")) || 1;
}
function findSymbol(written) {
  // As people type them: "ul" and "uL" for µL, "ml" for mL.
  const symbol = written.replace(/^u(?=(?:[lLgMmASVW]|mol)$)/, "µ").replace(/^([pnµm]?)l$/, "$1L");
  if (Object.hasOwn(OTHERS, symbol)) return OTHERS[symbol];
  for (const base of BASES) {
    const prefix = symbol.endsWith(base) ? symbol.slice(0, symbol.length - base.length) : null;
    if (prefix !== null && Object.hasOwn(PREFIXES, prefix)) return [PREFIXES[prefix], EXPANDED[base] || { [base]: 1 }];
  }
  return [1, { [symbol]: 1 }];
}
const combine = (first, second, sign) => {
  const powers = { ...first };
  for (const [base, power] of Object.entries(second)) {
    powers[base] = (powers[base] || 0) + sign * power;
    if (!powers[base]) delete powers[base];
  }
  return powers;
};
const isSame = (first, second) => !Object.keys(combine(first, second, -1)).length;

// Return the factor and the powers of a unit such as "µg/mL".
function parseUnit(text) {
  let factor = 1, powers = {}, sign = 1, rest = text.replaceAll("μ", "µ");
  while (rest) {
    if (rest[0] === "/") { sign = -1; rest = rest.slice(1); continue; }
    if (rest[0] === "·") { rest = rest.slice(1); continue; }
    const symbol = SYMBOL.exec(rest)[0];
    const [, name, power] = /^(.*?)([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]*)$/u.exec(symbol);
    const [size, bases] = findSymbol(name);
    for (let n = 0; n < Math.abs(parsePower(power)); n += 1) {
      const direction = sign * Math.sign(parsePower(power));
      factor *= size ** direction;
      powers = combine(powers, bases, direction);
    }
    rest = rest.slice(symbol.length);
  }
  return { factor, powers };
}
const parseNumber = (text) => Number(text.replace(/[,\u00a0\u202f]/g, ""));

// ---------------------------------------------------------------- expressions
// A quantity: `base` is its value in base units, `unit` the unit to write it in ("" if it has to be chosen).
function makeQuantity(value, unit) {
  const { factor, powers } = parseUnit(unit);
  return { base: value * factor, powers, unit, isPlain: !unit };
}
const multiply = (a, b, sign) => {
  const powers = combine(a.powers, b.powers, sign);
  // A unit is kept if the other factor is a plain number: 2 × 250 µL is 500 µL.
  const kept = b.isPlain ? a.unit : sign > 0 && a.isPlain ? b.unit : "";
  return { base: sign > 0 ? a.base * b.base : a.base / b.base, powers, unit: kept, isPlain: a.isPlain && b.isPlain };
};
function add(a, b, sign) {
  if (!isSame(a.powers, b.powers)) fail(`${nameUnit(a)} and ${nameUnit(b)} cannot be ${sign > 0 ? "added" : "subtracted"}: they are units of different things.`);
  return { ...a, base: a.base + sign * b.base, unit: a.unit || b.unit, isPlain: a.isPlain && b.isPlain };
}
const nameUnit = (quantity) => quantity.unit || (isSame(quantity.powers, {}) ? "a plain number" : writePowers(quantity.powers));

function readTokens(text) {
  const tokens = [];
  let rest = text.normalize("NFC").replaceAll("−", "-").replaceAll("–", "-").replace(/([\d)])([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/gu, (_, before, power) => `${before}^${parsePower(power)}`).replace(/(\d)\s+1\/(?=\p{L})/gu, "$1 /");
  while ((rest = rest.trimStart())) {
    const number = NUMBER.exec(rest);
    const previous = tokens.at(-1);
    const unit = !number && UNIT.exec(rest);
    if (number) { tokens.push({ kind: "number", value: parseNumber(number[0]) }); rest = rest.slice(number[0].length); }
    else if (unit && /^[x×]$/.test(unit[0]) && previous && /^[x×]\s*[\d(.]/.test(rest)) { tokens.push({ kind: "*" }); rest = rest.slice(1); }
    // "1/mL" is a unit; in "(1 mg)/mL" the stroke divides as well, so only a number may come before it.
    else if (unit && (unit[0][0] !== "/" || (previous && previous.kind === "number"))) { tokens.push({ kind: "unit", unit: unit[0] }); rest = rest.slice(unit[0].length); }
    else if ("+-*/^()×÷·:".includes(rest[0])) { tokens.push({ kind: { "×": "*", "·": "*", "÷": "/", ":": "/" }[rest[0]] || rest[0] }); rest = rest.slice(1); }
    else fail(`“${rest[0]}” is not understood here. Use numbers with units, + − × ÷ ^ and brackets.`);
  }
  return tokens;
}

// Return the quantity of an expression such as "10 mM * 5 µL / 500 µL". Raises ArithmeticError with a message for people.
export function evaluate(text) {
  const tokens = readTokens(text);
  if (!tokens.length) fail("Enter a calculation, for example 250 µL + 250 µL.");
  let place = 0;
  const next = () => (tokens[place] || { kind: "" }).kind;
  const take = (...kinds) => (kinds.includes(next()) ? tokens[place++] : null);

  function parseSum() {
    let result = parseProduct();
    for (let sign; (sign = take("+", "-"));) result = add(result, parseProduct(), sign.kind === "+" ? 1 : -1);
    return result;
  }
  function parseProduct() {
    let result = parseFactor();
    while (["*", "/", "unit", "("].includes(next())) {
      const sign = take("*", "/");
      const factor = parseFactor();
      if (sign && sign.kind === "/" && factor.base === 0) fail("This divides by zero.");
      result = multiply(result, factor, sign && sign.kind === "/" ? -1 : 1);
    }
    return result;
  }
  function parseFactor() {
    if (take("-")) { const result = parseFactor(); return { ...result, base: -result.base }; }
    take("+");
    const result = parseAtom();
    if (!take("^")) return result;
    const sign = take("-") ? -1 : 1, power = take("number");
    if (!power || !Number.isInteger(power.value) || power.value > 30) fail("After ^ comes a whole number up to 30.");
    let raised = makeQuantity(1, "");
    for (let n = 0; n < power.value; n += 1) raised = multiply(raised, result, sign);
    return raised;
  }
  function parseAtom() {
    if (take("(")) {
      const result = parseSum();
      if (!take(")")) fail("A bracket is not closed.");
      return result;
    }
    const number = take("number"), unit = take("unit");
    // A unit by itself belongs to what is before it: "10^6 cells", "(2 + 3) µL".
    const before = unit && !number ? (tokens[place - 2] || { kind: "" }).kind : "";
    if (!number && !unit) fail(place < tokens.length ? `A number is missing before “${next()}”.` : "A number is missing at the end.");
    if (!number && !["number", ")"].includes(before)) fail(`A number is missing before “${unit.unit}”.`);
    return makeQuantity(number ? number.value : 1, unit ? unit.unit : "");
  }
  const result = parseSum();
  if (place < tokens.length) fail(next() === ")" ? "There is a closing bracket too many." : "An operator such as + is missing between two numbers.");
  if (!Number.isFinite(result.base)) fail("The result is too large or divides by zero.");
  return result;
}

// Solve c1 · v1 = c2 · v2 for the field that is empty. Returns its name and the quantity.
export function dilute(texts) {
  const names = ["c1", "v1", "c2", "v2"];
  const empty = names.filter((name) => !texts[name].trim());
  if (empty.length !== 1) fail(empty.length ? "Fill in three of the four fields." : "Leave the field empty that you want to calculate.");
  const wanted = empty[0], side = wanted[1];
  const values = Object.fromEntries(names.filter((name) => name !== wanted).map((name) => [name, evaluate(texts[name])]));
  const partner = (wanted[0] === "c" ? "v" : "c") + side, others = side === "1" ? ["c2", "v2"] : ["c1", "v1"];
  const like = values[wanted[0] + (side === "1" ? "2" : "1")], other = values[partner[0] + (side === "1" ? "2" : "1")];
  if (!isSame(values[partner].powers, other.powers)) fail(`${nameUnit(values[partner])} and ${nameUnit(other)} are units of different things.`);
  if (!values[partner].base) fail("This divides by zero.");
  const base = (values[others[0]].base * values[others[1]].base) / values[partner].base;
  // 0.05 mL is written as 50 µL.
  const size = like.unit ? Math.abs(base) / parseUnit(like.unit).factor : 1;
  return { wanted, result: { ...like, base, unit: size >= 0.1 && size < 1e4 ? like.unit : hasScale(like.powers) ? "" : like.unit } };
}

// ---------------------------------------------------------------- results as text
export function formatNumber(value) {
  let short = Number(value.toPrecision(10));
  if (String(Math.abs(short)).replace(".", "").length > 8) short = Number(value.toPrecision(Math.abs(value) >= 1e6 ? 9 : 6));
  if (short !== 0 && (Math.abs(short) >= 1e15 || Math.abs(short) < 1e-6)) return short.toExponential(4).replace(/\.?0+e/, "e").replace("e+", "e").replace("-", "−");
  return short.toLocaleString("en-US", { maximumFractionDigits: 12 }).replace("-", "−");
}
const writePowers = (powers) => {
  const write = ([base, power]) => base + (Math.abs(power) === 1 ? "" : [...String(Math.abs(power))].map((digit) => SUPERSCRIPTS[digit]).join(""));
  const [above, below] = [1, -1].map((sign) => Object.entries(powers).filter(([, power]) => Math.sign(power) === sign).map(write).join("·"));
  return below ? `${above || "1"}/${below}` : above;
};
const choose = (base, steps) => steps.find(([, size]) => Math.abs(base) >= size) || steps.at(-1);
const STEPS = (name) => Object.entries(PREFIXES).reverse().filter(([prefix]) => prefix !== "k" || name === "g").map(([prefix, size]) => [prefix + name, size]);
// Units for results whose unit is that of no operand.
const KNOWN = [
  [{ mol: 1, L: -1 }, STEPS("M")], [{ mol: 1 }, STEPS("mol")], [{ L: 1 }, STEPS("L")], [{ g: 1 }, STEPS("g")], [{ m: 1 }, STEPS("m")],
  [{ g: 1, L: -1 }, [["mg/mL", 1], ["µg/mL", 1e-3], ["ng/mL", 1e-6]]], [{ s: 1 }, [["h", 3600], ["min", 60], ["s", 1]]],
];
const hasScale = (powers) => KNOWN.some(([bases]) => isSame(bases, powers));
export function formatQuantity({ base, powers, unit }) {
  if (unit) return writeWith(base / parseUnit(unit).factor, unit);
  if (isSame(powers, {})) return formatNumber(base);
  const known = KNOWN.find(([bases]) => isSame(bases, powers));
  if (known) { const [name, size] = choose(base, known[1]); return writeWith(base / size, name); }
  // Per volume is written per millilitre, as on the page.
  if (powers.L === -1) return writeWith(base / 1e3, writePowers({ ...combine(powers, { L: -1 }, -1), mL: -1 }));
  return writeWith(base, writePowers(powers));
}
const writeWith = (value, unit) => (unit.startsWith("/") ? `${formatNumber(value)} 1${unit}` : `${formatNumber(value)} ${unit}`);

// ---------------------------------------------------------------- values in texts
const VALUE = /(?<![\p{L}\d.,/-])[-−]?(?:\d{1,3}(?:[,\u00a0\u202f]\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d+|\s?×\s?10(?:\^[+-]?\d+|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?(?![\d.]*\d)(?:\s?(?:1?\/)?[\p{L}%°Ω][\p{L}%°]*[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*(?:\.u\.)?(?:[·/]\p{L}[\p{L}]*[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*)*)?/gu;
const isKnownUnit = (unit) => { const { factor, powers } = parseUnit(unit); return factor !== 1 || Object.keys(powers).some((base) => BASES.includes(base)) || /^(?:°C|cells|TU|particles|events|U)(?:\/|$)/.test(unit); };

// Return the values of a text, each as "250 µL". A text of values alone gives all of them, any other text those with a known unit.
export function findValues(text) {
  const matches = [...text.matchAll(VALUE)].map(([match]) => match.trim());
  const units = matches.map((match) => (UNIT.exec(match.replace(/^[-−]?[\d.,\s]+(?:[eE][+-]?\d+)?(?:×\s?10(?:\^[+-]?\d+|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?\s*1?/u, "")) || [""])[0]);
  const isList = matches.length > 0 && matches.reduce((rest, match) => rest.replace(match, ""), text).replace(/[\s,;]/g, "") === "";
  if (!isList) return matches.filter((_, n) => units[n] && isKnownUnit(units[n]));
  // "0.0741, 0.075 AU": the last unit is that of all.
  return matches.map((match, n) => (units[n] || !units.at(-1) ? match : `${match} ${units.at(-1)}`));
}

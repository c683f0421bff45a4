import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ratings", "0008_accounts")]
    operations = [
        migrations.AlterField(
            model_name="ratingevent",
            name="assignment",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="rating_events",
                to="ratings.assignment",
            ),
        ),
    ]

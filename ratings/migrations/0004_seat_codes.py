import uuid

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ratings", "0003_fill")]
    operations = [
        migrations.AlterField(
            model_name="rater", name="code", field=models.UUIDField(default=uuid.uuid4, editable=False, unique=True)
        ),
    ]

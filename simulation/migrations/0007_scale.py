from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("simulation", "0006_operations")]
    operations = []

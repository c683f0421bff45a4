from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("simulation", "0005_jobs")]
    operations = []

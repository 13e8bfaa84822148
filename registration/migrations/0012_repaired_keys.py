from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('registration', '0011_authority_of_certificates'),
    ]

    operations = [
        migrations.AlterField(
            model_name='acceptedkey',
            name='how',
            field=models.CharField(choices=[('accept', 'Accept'), ('renewal', 'Renewal'), ('override', 'Override'), ('upgrade', 'Upgrade'), ('repair', 'Repair'), ('recorded', 'Recorded')], max_length=8),
        ),
    ]

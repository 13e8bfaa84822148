from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('kubeapi', '0017_rights_of_objects'),
    ]

    operations = [
        migrations.AddField(
            model_name='revision',
            name='rights_given',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]

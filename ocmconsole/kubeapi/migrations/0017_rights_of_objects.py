from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('kubeapi', '0016_audit_key_name'),
    ]

    operations = [
        migrations.AddField(
            model_name='revision',
            name='rights_of_objects',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
    ]

# The field of an audit entry has the word of the glossary; its column keeps its name, so that no row is touched.

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('kubeapi', '0010_bulk_query'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField('auditevent', 'door', 'entry_point'),
                migrations.AlterField('auditevent', 'entry_point', models.CharField(db_column='door', max_length=10)),
            ],
        ),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('kubeapi', '0009_bulkselection'),
    ]

    operations = [
        migrations.AddField(
            model_name='bulkjob',
            name='query',
            field=models.CharField(blank=True, default='', max_length=2000),
        ),
        migrations.AddField(
            model_name='bulkselection',
            name='query',
            field=models.CharField(blank=True, default='', max_length=2000),
        ),
    ]

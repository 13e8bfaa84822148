from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('corekinds', '0005_token_order'),
    ]

    operations = [
        migrations.AddField(
            model_name='bootstraptoken',
            name='key_line',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='bootstraptoken',
            name='rotation',
            field=models.CharField(blank=True, default='', max_length=64),
        ),
        migrations.AddField(
            model_name='bootstraptokenuse',
            name='hub_url',
            field=models.CharField(blank=True, default='', max_length=300),
        ),
    ]

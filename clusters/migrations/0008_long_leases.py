from django.db import migrations


class Migration(migrations.Migration):
    """``clusters.kinds.LONGEST_LEASE_SECONDS`` for clusters that are stored already."""

    dependencies = [("clusters", "0007_gaps")]

    operations = [
        migrations.RunSQL(
            "UPDATE clusters_managedcluster SET lease_duration_seconds = 86400 WHERE lease_duration_seconds > 86400",
            migrations.RunSQL.noop,
        ),
    ]

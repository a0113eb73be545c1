from anchorfl.prepare.setup import Setup as Setup
from anchorfl.prepare.setup import described_width as described_width
from anchorfl.prepare.setup import describer_for as describer_for
from anchorfl.prepare.setup import new_task as new_task
from anchorfl.prepare.setup import shared_settings as shared_settings
from anchorfl.prepare.setup import shared_target as shared_target

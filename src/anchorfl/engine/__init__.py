"""What moves messages between sites and server: the loop, its events, and what listens to them."""

from anchorfl.engine.events import (
    BatchTrained,
    EpochEnded,
    Evaluating,
    Event,
    Listener,
    ListenerFactory,
    MetricsWriter,
    Preparing,
    RoundEnded,
    RunEnded,
    RunStarted,
    Warned,
    as_record,
)
from anchorfl.engine.federation import Federation, Outcome, check
from anchorfl.engine.flower_quiet import QUIET
from anchorfl.engine.fuse_again import FusedAgain, fuse_again
from anchorfl.engine.in_process import stepper_for
from anchorfl.engine.run_data import data_of, facts_of
from anchorfl.engine.running import read_begun, run_in_folder
from anchorfl.engine.server_run import Received, fuse_files, request_of
from anchorfl.engine.site_run import SiteOptions, describe_site, read_site, rehearse, site_upload
from anchorfl.engine.stored_uploads import start_of, uploads_of, write_uploads

__all__ = [
    "QUIET",
    "BatchTrained",
    "EpochEnded",
    "Evaluating",
    "Event",
    "Federation",
    "FusedAgain",
    "Listener",
    "ListenerFactory",
    "MetricsWriter",
    "Outcome",
    "Preparing",
    "Received",
    "RoundEnded",
    "RunEnded",
    "RunStarted",
    "SiteOptions",
    "Warned",
    "as_record",
    "check",
    "data_of",
    "describe_site",
    "facts_of",
    "fuse_again",
    "fuse_files",
    "read_begun",
    "read_site",
    "rehearse",
    "request_of",
    "run_in_folder",
    "site_upload",
    "start_of",
    "stepper_for",
    "uploads_of",
    "write_uploads",
]

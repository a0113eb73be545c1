from anchorfl.simulate.fusing import FusedAgain as FusedAgain
from anchorfl.simulate.fusing import fuse_again as fuse_again
from anchorfl.simulate.run_data import data_of as data_of
from anchorfl.simulate.run_data import unlabelled as unlabelled
from anchorfl.simulate.running import read_begun as read_begun
from anchorfl.simulate.running import run_in_folder as run_in_folder
from anchorfl.simulate.simulation import Simulation as Simulation

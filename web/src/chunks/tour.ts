// The tour through one step.
import { carried } from "../carried";
import { Tour } from "../tour";

carried.Tour = Tour;

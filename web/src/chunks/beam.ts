// The view of a beam's tree.
import { add } from "../views";
import { beam } from "../views/beam";

add(beam);

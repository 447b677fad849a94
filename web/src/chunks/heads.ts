// The wall of all layers and heads.
import { add } from "../views";
import { heads } from "../views/heads";

add(heads);

// Views that judge: two traces side by side, and how far the weights can be trusted.
import { add } from "../views";
import { compare } from "../views/compare";
import { truth } from "../views/truth";

add(truth, compare);

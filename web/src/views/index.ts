// The views, in the order of their tabs. A page shows those that serve its trace.
import type { View } from "../types";
import { alignment } from "./alignment";
import { arcs } from "./arcs";
import { beam } from "./beam";
import { documents } from "./document";
import { image } from "./image";
import { audio } from "./audio";
import { heads } from "./heads";
import { steps } from "./steps";

export const VIEWS: View[] = [steps, alignment, heads, arcs, documents, image, audio, beam];

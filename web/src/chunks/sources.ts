// Views of other sources than a sentence: documents, images, graphs, visits and reviews.
import { add } from "../views";
import { documents } from "../views/document";
import { graph } from "../views/graph";
import { image } from "../views/image";
import { timeline } from "../views/timeline";

add(documents, image, graph, timeline);

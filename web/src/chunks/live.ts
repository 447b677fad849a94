// Asking a model that answers, and what if: of a page with a server behind it.
import { Asking } from "../asking";
import { carried } from "../carried";
import { liveOf } from "../live";
import { Measuring } from "../measuring";
import { Beginning, Controls, Told } from "../what_if_panel";

carried.asking = { liveOf, Asking, Controls, Told, Beginning, Measuring };

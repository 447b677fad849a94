// The sheet: a picture as papers print it, in millimetres, also as PDF.
import { carried } from "../carried";
import { Sheet } from "../sheet";

carried.Sheet = Sheet;

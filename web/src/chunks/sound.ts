// Sound: its player over the spectrogram; and where a model answers, a microphone.
import { carried } from "../carried";
import { Recorder, readable } from "../recording";
import { add } from "../views";
import { audio } from "../views/audio";

add(audio);
carried.sound = { Recorder, readable };

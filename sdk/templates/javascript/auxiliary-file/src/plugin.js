// Checks the lines of a text file: how long they are, and that they end in no white space.

import { ConfigError, Report, lines, options } from './haptic-plugin.js';

/** A person reads no more than this at once. */
const MAX_FINDINGS = 20;

const [TAB, CR, SPACE] = [9, 13, 32];

/** The validator, made from the plugin's `config`. */
export class Validator {
  #max;

  constructor(config) {
    // The longest line, in bytes.
    this.#max = options(config, { max: 120 }).max;
    if (!Number.isInteger(this.#max) || this.#max < 1) {
      throw new ConfigError('`max` must be a whole number from 1');
    }
  }

  /** Checks one file. The same request must give the same report. */
  validate({ file }) {
    const report = new Report();
    for (const line of lines(file)) {
      const text = line.text.at(-1) === CR ? line.text.subarray(0, -1) : line.text;
      if (text.length > this.#max) {
        report.error(line.at(this.#max), `the line has ${text.length} bytes; break it after ${this.#max}`);
      }
      if (text.at(-1) === SPACE || text.at(-1) === TAB) {
        report.warn(line.at(text.length - 1), 'remove the white space at the end of the line');
      }
      if (report.errors.length + report.warnings.length >= MAX_FINDINGS) break;
    }
    return report;
  }
}

// Refuses directives that must not be in `haproxy.cfg`.

import { ConfigError, Report, lines, options } from './haptic-plugin.js';

/** A person reads no more than this at once. */
const MAX_FINDINGS = 20;

const SPACES = [9, 13, 32];

/** The validator, made from the plugin's `config`. */
export class Validator {
  #forbidden;

  constructor(config) {
    // First words of lines that must not be.
    const { forbidden } = options(config, { forbidden: ['debug'] });
    if (!forbidden.every((word) => typeof word === 'string' && word !== '')) {
      throw new ConfigError('`forbidden` must hold words');
    }
    this.#forbidden = forbidden.map((word) => ({ word, bytes: new TextEncoder().encode(word) }));
  }

  /** Checks one render. The same request must give the same report. */
  validate({ config }) {
    const report = new Report();
    for (const line of lines(config)) {
      const start = line.text.findIndex((byte) => !SPACES.includes(byte));
      if (start === -1) continue;
      const found = this.#forbidden.find(({ bytes }) => begins(line.text, start, bytes));
      if (found) report.error(line.at(start), `\`${found.word}\` must not be used here; remove the line`);
      if (report.errors.length >= MAX_FINDINGS) break;
    }
    return report;
  }
}

/** Whether `word` stands at `start` of `text`, with white space or nothing after it. */
function begins(text, start, word) {
  const end = start + word.length;
  return (end === text.length || SPACES.includes(text[end])) && word.every((byte, index) => text[start + index] === byte);
}

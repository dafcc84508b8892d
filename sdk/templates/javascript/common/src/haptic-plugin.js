// What a plugin for haptic is written with: files and their lines, positions, reports and configs.
//
// Nothing here needs WebAssembly, so a plugin can be tested natively on files in memory: see tests/.

/** How much `lines` reads at once. */
const CHUNK_BYTES = 64 << 10;

const LF = 10;

/** The config is wrong. Say which field is, and what would be right; haptic then refuses to load the plugin. */
export class ConfigError extends Error {}

/** The plugin cannot answer. It says nothing about the input: what is wrong with the input is a finding. */
export class PluginError extends Error {}

/** For filters: this value or these arguments are wrong. Only what was being rendered with them is left out. */
export class Refused extends Error {}

/** For filters: the plugin cannot answer, whatever the arguments. The render fails. */
export class Failed extends Error {}

/** A validator's answer. The verdict follows from what was found. */
export class Report {
  warnings = [];
  errors = [];

  /** Adds something that must stop publication. Say what is wrong and what to do. */
  error(position, message) {
    this.errors.push({ ...position, message });
  }

  /** Adds something that should be seen but stops nothing. */
  warn(position, message) {
    this.warnings.push({ ...position, message });
  }

  /** `valid`, `warning` or `error`. */
  get verdict() {
    if (this.errors.length > 0) return 'error';
    return this.warnings.length > 0 ? 'warning' : 'valid';
  }
}

/**
 * A rendered file. Its content stays with haptic until it is read: read a range where that is enough. It is made from
 * the contract's own file, or from anything with the methods `path`, `size`, `readAll` and `read`.
 */
export class File {
  #handle;

  constructor(handle) {
    this.#handle = handle;
    /** Where the file stands below the base directory. */
    this.path = handle.path();
  }

  /** In bytes. Costs nothing. */
  get size() {
    return Number(this.#handle.size());
  }

  /** The whole content, a Uint8Array of any bytes. */
  readAll() {
    return this.#handle.readAll();
  }

  /** At most `length` bytes from `offset`: fewer, or none, where the file ends before. */
  read(offset, length) {
    return this.#handle.read(BigInt(offset), BigInt(length));
  }

  /** The file as a whole, with no position in it. */
  whole() {
    return { path: this.path, line: 0, column: 0 };
  }

  /** Line and column of the byte at `offset` of `content`, which is this file's content. */
  position(content, offset) {
    const end = Math.min(Math.max(offset, 0), content.length);
    let [line, start] = [1, 0];
    for (let feed = content.indexOf(LF); feed !== -1 && feed < end; feed = content.indexOf(LF, start)) {
      line += 1;
      start = feed + 1;
    }
    return { path: this.path, line, column: end - start + 1 };
  }
}

/** One line of a file. `text` is a Uint8Array without the line feed; a carriage return before it is part of it. */
export class Line {
  constructor(file, number, text) {
    this.file = file;
    this.number = number;
    this.text = text;
  }

  /** The place of the byte at `index` of the text: lines count from 1, columns in bytes from 1. */
  at(index) {
    return { path: this.file.path, line: this.number, column: index + 1 };
  }
}

/** The lines of a file, holding no more than a piece and the current line. Nothing after the last line feed is no line. */
export function* lines(file) {
  let [number, offset, begun] = [0, 0, []];
  for (;;) {
    const piece = file.read(offset, CHUNK_BYTES);
    if (piece.length === 0) break;
    offset += piece.length;
    let start = 0;
    for (let feed = piece.indexOf(LF); feed !== -1; feed = piece.indexOf(LF, start)) {
      number += 1;
      yield new Line(file, number, joined(begun, piece.subarray(start, feed)));
      begun = [];
      start = feed + 1;
    }
    // A copy: a view would keep the whole piece.
    if (start < piece.length) begun.push(piece.slice(start));
  }
  if (begun.length > 0) yield new Line(file, number + 1, joined(begun, new Uint8Array()));
}

/** What a line has in earlier pieces, and its end. */
function joined(begun, end) {
  if (begun.length === 0) return end;
  const parts = [...begun, end];
  const line = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    line.set(part, at);
    at += part.length;
  }
  return line;
}

/** The fields of a config, each with its default. A field that has none is refused, and so is another type. */
export function options(config, defaults) {
  if (kind(config) !== 'object') throw new ConfigError(`the config must be an object, not ${JSON.stringify(config)}`);
  for (const [name, value] of Object.entries(config)) {
    if (!Object.hasOwn(defaults, name)) {
      const known = Object.keys(defaults).map((known) => `\`${known}\``);
      const expected = known.length === 1 ? known[0] : `one of ${known.join(', ')}`;
      throw new ConfigError(`unknown field \`${name}\`, expected ${expected}`);
    }
    if (kind(value) !== kind(defaults[name])) {
      const [like, found] = [JSON.stringify(defaults[name]), JSON.stringify(value)];
      throw new ConfigError(`\`${name}\` must be of the kind of ${like}, not ${found}`);
    }
  }
  return { ...defaults, ...config };
}

function kind(value) {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'list' : typeof value;
}

/** For filters: gives each parameter its argument, by place or by name. What is not given is not in the answer. */
export function bind(parameters, positional, named) {
  if (positional.length > parameters.length) {
    throw new Refused(`it takes at most ${parameters.length} arguments, but has ${positional.length}`);
  }
  const bound = new Map(positional.map((value, index) => [parameters[index], value]));
  for (const [name, value] of named) {
    if (!parameters.includes(name)) {
      const known = parameters.map((known) => `\`${known}\``).join(', ') || 'none';
      throw new Refused(`it has no parameter \`${name}\`; known: ${known}`);
    }
    if (bound.has(name)) throw new Refused(`\`${name}\` is given twice`);
    bound.set(name, value);
  }
  return bound;
}

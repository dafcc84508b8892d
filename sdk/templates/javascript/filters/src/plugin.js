// Filters for texts.

import { Refused, bind, options } from './haptic-plugin.js';

/** The filters, made from the plugin's `config`. They must be pure: haptic remembers answers. */
export class Filters {
  /** How templates call them, and what they do. */
  static FILTERS = { shorten: 'The text, cut to `length` characters (default 20).' };

  #mark;

  constructor(config) {
    // What stands where a text was cut.
    this.#mark = options(config, { mark: '...' }).mark;
  }

  /** The filter `shorten`. */
  shorten(value, positional, named) {
    const length = bind(['length'], positional, named).get('length') ?? 20;
    if (typeof value !== 'string' || !Number.isInteger(length) || length < 1) {
      throw new Refused('the value must be a string and `length` a whole number from 1');
    }
    // By characters, which are not the units that a string is made of.
    const characters = [...value];
    return characters.length <= length ? value : characters.slice(0, length).join('') + this.#mark;
  }
}

// Joins plugin.js to the contract. There is nothing to edit here.

import { ConfigError, Failed, Refused } from './haptic-plugin.js';
import { Filters } from './plugin.js';

let filters;

export const templateFilters = {
  configure(config) {
    try {
      filters = new Filters(JSON.parse(config));
    } catch (error) {
      throw error instanceof ConfigError ? error.message : `it stopped: ${error}\n${error?.stack ?? ''}`;
    }
  },

  declarations() {
    return Object.entries(Filters.FILTERS).map(([name, doc]) => ({ name, doc }));
  },

  call(name, value, positional, named) {
    if (!Object.hasOwn(Filters.FILTERS, name)) throw { tag: 'failed', val: `there is no filter \`${name}\`` };
    try {
      const read = (argument) => JSON.parse(argument);
      const answer = filters[name](
        read(value),
        positional.map(read),
        named.map(([name, argument]) => [name, read(argument)]),
      );
      return JSON.stringify(answer) ?? 'null';
    } catch (error) {
      if (error instanceof Refused) throw { tag: 'refused', val: error.message };
      // The contract's answers are thrown as plain objects; whatever else is thrown would be a trap without words.
      throw { tag: 'failed', val: error instanceof Failed ? error.message : `it stopped: ${error}\n${error?.stack ?? ''}` };
    }
  },
};

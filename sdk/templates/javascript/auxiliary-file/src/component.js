// Joins plugin.js to the contract. There is nothing to edit here.

import { ConfigError, File, PluginError } from './haptic-plugin.js';
import { Validator } from './plugin.js';

let validator;

export const auxiliaryFileValidator = {
  configure(config) {
    try {
      validator = new Validator(JSON.parse(config));
    } catch (error) {
      throw error instanceof ConfigError ? error.message : `it stopped: ${error}\n${error?.stack ?? ''}`;
    }
  },

  validate(request) {
    try {
      const report = validator.validate({
        file: new File(request.file),
        dataFiles: request.dataFiles.map((file) => new File(file)),
        now: Number(request.now),
      });
      return { verdict: report.verdict, warnings: report.warnings, errors: report.errors };
    } catch (error) {
      // The contract's answers are thrown as plain objects; whatever else is thrown would be a trap without words.
      throw { message: error instanceof PluginError ? error.message : `it stopped: ${error}\n${error?.stack ?? ''}` };
    }
  },
};

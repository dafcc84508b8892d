// Makes a component of a project in JavaScript.
// usage: node componentize.js SOURCE WIT OUTPUT

import { writeFile } from 'node:fs/promises';

import { componentize } from '@bytecodealliance/componentize-js';

const [sourcePath, witPath, output] = process.argv.slice(2);
try {
  const { component } = await componentize({
    sourcePath,
    witPath,
    worldName: 'component',
    // None of the engine's doors to the outside: the component imports haptic's interfaces alone.
    disableFeatures: ['stdio', 'random', 'clocks', 'http', 'fetch-event'],
  });
  await writeFile(output, component);
} catch (error) {
  process.stderr.write(`${error?.message ?? error}\n`);
  process.exitCode = 1;
}

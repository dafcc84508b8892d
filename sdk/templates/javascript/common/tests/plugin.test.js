// Runs the plugin natively: on the cases, and on whatever you add.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { ConfigError, Failed, File, Refused, lines } from '../src/haptic-plugin.js';
import * as plugin from '../src/plugin.js';

const CASES = fileURLToPath(new URL('../cases', import.meta.url));

/** A fake of the contract's file, with its content in memory. */
class MemoryFile {
  constructor(path, content) {
    Object.assign(this, { name: path, content: new Uint8Array(content) });
  }

  path() {
    return this.name;
  }

  size() {
    return BigInt(this.content.length);
  }

  readAll() {
    return this.content.slice();
  }

  read(offset, length) {
    return this.content.slice(Number(offset), Number(offset + length));
  }
}

function file(path, content) {
  return new File(new MemoryFile(path, content));
}

function filesBelow(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

/** What a validator says about a case. */
function report(document, folder) {
  const root = join(folder, 'files');
  const files = new Map(filesBelow(root).map((path) => [relative(root, path).split(sep).join('/'), readFileSync(path)]));
  const subject = document.file ?? 'haproxy.cfg';
  const checked = file(subject, files.get(subject));
  files.delete(subject);
  const others = [...files].sort(([a], [b]) => (a < b ? -1 : 1)).map(([path, content]) => file(path, content));
  const [one, rest] = document.file === undefined ? ['config', 'files'] : ['file', 'dataFiles'];
  let validator;
  try {
    validator = new plugin.Validator(document.config ?? {});
  } catch (error) {
    if (error instanceof ConfigError) return { config_refused: error.message };
    throw error;
  }
  const { verdict, warnings, errors } = validator.validate({ [one]: checked, [rest]: others, now: document.now ?? 0 });
  return { result: verdict, warnings, errors };
}

/** What a filter answers to a call. */
function answer(config, { filter, value, positional = [], named = {} }) {
  try {
    return { answer: new plugin.Filters(config)[filter](value, positional, Object.entries(named)) };
  } catch (error) {
    if (error instanceof Refused) return { refused: error.message };
    if (error instanceof Failed) return { failed: error.message };
    throw error;
  }
}

for (const name of readdirSync(CASES)) {
  const document = JSON.parse(readFileSync(join(CASES, name, 'case.json'), 'utf8'));
  test(`${name}: ${document.description}`, () => {
    if (document.calls === undefined) {
      assert.deepEqual(report(document, join(CASES, name)), document.expect);
    }
    for (const call of document.calls ?? []) {
      assert.deepEqual(answer(document.config ?? {}, call), call.expect);
    }
  });
}

function split(content) {
  const text = new TextDecoder();
  return [...lines(file('f', new TextEncoder().encode(content)))].map((line) => [line.number, text.decode(line.text)]);
}

test('a last line may have no line feed', () => {
  assert.deepEqual(split(''), []);
  assert.deepEqual(split('\n'), [[1, '']]);
  assert.deepEqual(split('a\r\n\nb'), [[1, 'a\r'], [2, ''], [3, 'b']]);
});

test('a line may be longer than what is read at once', () => {
  const long = 'x'.repeat(200_000);
  assert.deepEqual(split(`${long}\n${long}`), [[1, long], [2, long]]);
});

test('a line feed may be the first or the last byte of what is read at once', () => {
  for (const length of [65_535, 65_536, 131_071, 131_072]) {
    const long = 'x'.repeat(length);
    assert.deepEqual(split(`${long}\n`), [[1, long]]);
    assert.deepEqual(split(`${long}\n\ny`), [[1, long], [2, ''], [3, 'y']]);
  }
});

test('a line may be as long as a file may be', () => {
  const [first, second] = lines(file('f', new Uint8Array(32 << 20).fill(120, 0, -2).fill(10, -2, -1)));
  assert.deepEqual([first.text.length, second.text.length], [(32 << 20) - 2, 1]);
});

test('an offset becomes line and column', () => {
  const content = new TextEncoder().encode('ab\ncd\n');
  const place = (offset) => file('f', content).position(content, offset);
  assert.deepEqual(place(2), { path: 'f', line: 1, column: 3 });
  assert.deepEqual(place(3), { path: 'f', line: 2, column: 1 });
  assert.deepEqual(place(600), { path: 'f', line: 3, column: 1 });
});

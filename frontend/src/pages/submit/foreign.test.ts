import { describe, expect, it } from 'vitest';

import { isForeign } from './foreign';
import { SAMPLES } from './samples';

describe('files of other systems', () => {
  it.each(['#!/bin/bash\n#SBATCH -t 5\nrun\n', 'protocolVersion: 2\nname: a\n', '"taskRoles":\n  a: {}\n', '{"protocolVersion": 2, "taskRoles": {}}', '{\n  "name": "a",\n  "taskRoles": {}}'])('are told: %j', (text) => {
    expect(isForeign(text)).toBe(true);
  });

  it.each([...SAMPLES.map((sample) => sample.text), 'command: |\n  echo "#SBATCH"\n', 'env:\n  taskRoles: a\ncommand: run\n', '{"command": "run"}', ''])('jobs of ours are not: %j', (text) => {
    expect(isForeign(text)).toBe(false);
  });
});

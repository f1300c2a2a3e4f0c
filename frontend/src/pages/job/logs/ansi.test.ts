/** Colours and control signs in what a job prints. */

import { describe, expect, it } from 'vitest';

import { parse, PLAIN, strip, styleAfter } from './ansi';

const ESC = '\x1b';
const texts = (text: string) => parse(text).runs.map((run) => run.text);

describe('colours of a terminal', () => {
  it('leaves plain text as it is', () => {
    expect(parse('step 1\tloss=0.5')).toEqual({ runs: [{ text: 'step 1\tloss=0.5', style: PLAIN }], end: PLAIN });
    expect(parse('')).toEqual({ runs: [], end: PLAIN });
  });

  it('makes runs of SGR sequences', () => {
    const { runs, end } = parse(`${ESC}[1;31mred${ESC}[0m then ${ESC}[96mbright`);
    expect(runs.map((run) => [run.text, run.style.ink, run.style.bold])).toEqual([['red', 1, true], [' then ', null, false], ['bright', 14, false]]);
    expect(end.ink).toBe(14);
  });

  it('carries a look over to the next line', () => {
    const style = styleAfter(`${ESC}[32mgreen`, PLAIN);
    expect(parse('still', style).runs[0]?.style.ink).toBe(2);
    expect(styleAfter(`${ESC}[m`, style)).toBe(PLAIN);
  });

  it('brings 256 and 24-bit colours to the sixteen', () => {
    expect(parse(`${ESC}[38;5;196mx`).runs[0]?.style.ink).toBe(9);
    expect(parse(`${ESC}[38;2;0;180;0mx`).runs[0]?.style.ink).toBe(2);
    expect(parse(`${ESC}[48;5;244mx`).runs[0]?.style.ground).toBe(8);
    expect(parse(`${ESC}[38;5mx`).runs[0]?.text).toBe('x');
  });

  it('drops links, titles, cursor moves and whatever else a terminal obeys', () => {
    expect(texts(`a${ESC}]8;;https://evil.example${ESC}\\link${ESC}]8;;${ESC}\\b`).join('')).toBe('alinkb');
    expect(texts(`${ESC}]0;title\x07x`)).toEqual(['x']);
    expect(texts(`a${ESC}[2J${ESC}[10;20Hb${ESC}[?25lc${ESC}[6n${ESC}c!`).join('')).toBe('abc!');
    expect(texts(`${ESC}P+q544e${ESC}\\x`).join('')).toBe('x');
    expect(texts(`a\x07\x00\x08b\u202etxt`).join('')).toBe('abtxt');
  });

  it('drops a sequence that is cut off', () => {
    expect(texts(`abc${ESC}[3`)).toEqual(['abc']);
    expect(texts(`abc${ESC}`)).toEqual(['abc']);
    expect(strip(`x${ESC}]8;;http`)).toBe('x');
  });

  it('never leaves an escape, whatever comes', () => {
    let seed = 7;
    const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
    const alphabet = [ESC, '[', ']', '0', ';', '8', 'm', 'a', '\x07', '\\', '\x9b', '<', 'P', '\x00', ' '];
    for (let round = 0; round < 3000; round += 1) {
      const text = Array.from({ length: 20 }, () => alphabet[Math.floor(random() * alphabet.length)]).join('');
      const shown = parse(text).runs.map((run) => run.text).join('');
      // eslint-disable-next-line no-control-regex
      expect(shown).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
      expect(shown).toBe(strip(text));
    }
  });
});

/** The finder of loops that sleep, on loops of every shape that it has to find and on some that it must not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sleepingLoops } from './sleeping-loops.ts'

const FOUND = {
  'a for that awaits a sleep': 'for (;;) {\n  await sleep(10)\n}',
  'a while without a block': 'while (isBusy()) await sleep(10)',
  'a do': 'do {\n  await sleep(10)\n} while (true)',
  'a timer in a promise':
    'for (let n = 0; n < 3; n += 1) {\n  await new Promise((resolve) => setTimeout(resolve, 10))\n}',
  'a timer under another name':
    "import { setTimeout as wait } from 'node:timers/promises'\nfor (;;) {\n  await wait(10)\n}",
  'a method that sleeps':
    'class A {\n  async run(): Promise<void> {\n    while (true) await this.#pauseABit()\n  }\n\n  async #pauseABit(): Promise<void> {\n    await sleep(10)\n  }\n}',
  'an arrow function that sleeps': 'const rest = (): Promise<void> => sleep(10)\nfor (;;) {\n  await rest()\n}',
  'a function that calls itself from a timer':
    'function again(tries: number): void {\n  setTimeout(() => again(tries - 1), 10)\n}',
}

const PASSED = {
  'a loop without a sleep': 'for (const file of files) {\n  await read(file)\n}\nawait sleep(10)',
  'a limit on what a loop awaits':
    'for (const one of all) {\n  const timer = setTimeout(() => one.abort(), 10)\n  await one.end\n  clearTimeout(timer)\n}',
}

const places = (text: string): readonly string[] => sleepingLoops({ path: 'x.ts', text, code: text })

for (const [name, text] of Object.entries(FOUND)) {
  test(`finds ${name}`, () => assert.equal(places(text).length, 1, text))
}

for (const [name, text] of Object.entries(PASSED)) {
  test(`passes ${name}`, () => assert.deepEqual(places(text), []))
}

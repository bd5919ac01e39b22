#!/usr/bin/env node
/** Starts `breakfall` with the system's Node, or with the checkout's own copy if that one is too old. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { become } from '../../../scripts/become.mjs'
import { isSetUp, root, setUp } from '../../../scripts/setup.mjs'

const words = process.argv.slice(2)
const flags = words.includes('--') ? words.slice(0, words.indexOf('--')) : words
const asks = (...names) => names.some((name) => flags.includes(name))

// A question installs nothing.
if (asks('--version', '-V', '--help', '-h') && !isSetUp()) process.stdout.write(`${answer()}\n`)
// Stays in the current folder, even if it was removed: the program reports that.
else become(setUp({ dev: false }), [join(root, 'packages/cli/src/main.ts'), ...words])

// ---- details ----

/** What can be said before the first set-up. */
function answer() {
  if (asks('--version', '-V')) return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version
  return `Usage: breakfall [options] [command]

This checkout is not set up yet, so the list of commands cannot be shown. Nothing was installed.
Every other command sets it up first. To do that now: npm ci --omit=dev`
}

#!/usr/bin/env node
/** `breakfall` on whatever Node the system has: goes on under the checkout's own where that one is too old. */
import { join } from 'node:path'
import { become } from '../../../scripts/become.mjs'
import { root, setUp } from '../../../scripts/setup.mjs'

// Where we are stays as it is: a folder that was removed meanwhile is the program's to tell.
become(setUp({ dev: false }), [join(root, 'packages/cli/src/main.ts'), ...process.argv.slice(2)])

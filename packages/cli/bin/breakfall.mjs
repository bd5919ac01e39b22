#!/usr/bin/env node
/** `breakfall` on whatever Node the system has: goes on under the checkout's own where that one is too old. */
import { join } from 'node:path'
import { become, root, setUp } from '../../../scripts/setup.mjs'

become(setUp({ dev: false }), [join(root, 'packages/cli/src/main.ts'), ...process.argv.slice(2)], process.cwd())

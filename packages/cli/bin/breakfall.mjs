#!/usr/bin/env node
/** Starts `breakfall` with the system's Node, or with the checkout's own copy if that one is too old. */
import { join } from 'node:path'
import { become } from '../../../scripts/become.mjs'
import { root, setUp } from '../../../scripts/setup.mjs'

// Stays in the current folder, even if it was removed: the program reports that.
become(setUp({ dev: false }), [join(root, 'packages/cli/src/main.ts'), ...process.argv.slice(2)])

/** `npm run mcp:real`: runs real MCP servers from npm under kills. Downloads them into a temporary folder. */
import { join } from 'node:path'
import { setUp, step } from './setup.mjs'

const node = setUp({ dev: true })
process.exitCode = step(node, [join('bench', 'mcp-real', 'main.ts'), ...process.argv.slice(2)])

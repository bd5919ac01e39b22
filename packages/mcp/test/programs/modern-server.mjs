/** A server of 2026-07-28 on the SDK: `node modern-server.mjs DIARY`. One line in the diary per start and per call. */
import { appendFileSync } from 'node:fs'
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const [diary = '/dev/null'] = process.argv.slice(2)
appendFileSync(diary, `start ${process.pid}\n`)
serveStdio(() => {
  const server = new McpServer({ name: 'modern', version: '1' })
  server.registerTool(
    'add',
    { description: 'Adds.', inputSchema: z.object({ a: z.number(), b: z.number() }) },
    ({ a, b }) => {
      appendFileSync(diary, 'add\n')
      return { content: [{ type: 'text', text: String(a + b) }] }
    },
  )
  return server
})

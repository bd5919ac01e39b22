/** The console's files at `/`, where a folder with them was given. They hold no secret: the page asks for the token itself. */
import { readFile } from 'node:fs/promises'
import { extname, join, normalize, sep } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { Call, Route } from '@breakfall/wire/node'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
  '.map': 'application/json',
}

const POLICY =
  "default-src 'self'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"

export function serveConsole(folder: string | undefined): readonly Route[] {
  const base = { method: 'get', summary: 'The console', open: true, answers: { 200: 'text/html' } } as const
  return [
    { ...base, path: '/', operationId: 'console', handle: (call) => send(call, folder, 'index.html') },
    {
      ...base,
      path: '/assets/{path+}',
      operationId: 'consoleAsset',
      handle: (call) => send(call, folder, `assets/${call.params['path']}`),
    },
  ]
}

async function send(call: Call, folder: string | undefined, path: string): Promise<undefined> {
  const bytes = await content(folder, path)
  call.res.writeHead(200, {
    'content-type': TYPES[extname(path)] ?? 'application/octet-stream',
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'content-length': String(bytes.length),
  })
  call.res.end(call.method === 'HEAD' ? undefined : bytes)
  return undefined
}

async function content(folder: string | undefined, path: string): Promise<Buffer> {
  const relative = normalize(path)
  const missing = (cause?: unknown): Fault => new Fault('not_found', { facts: { name: 'console' }, cause })
  if (folder === undefined || relative.startsWith('..') || relative.startsWith(sep)) throw missing()
  try {
    return await readFile(join(folder, relative))
  } catch (cause) {
    throw missing(cause)
  }
}

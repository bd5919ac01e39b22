/**
 * Serves the console's files. The page can start commands, so it gets the strictest headers: nothing from elsewhere, no inline
 * code, no frames, and no text that a script could turn into markup.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { Fault } from '@breakfall/faults'
import type { RequestContext } from '@breakfall/wire/node'
import type { ConsolePage } from '../options.ts'

/** `/`: the page, or a plain page with the reason why there is none. */
export async function sendPage(context: RequestContext, page: ConsolePage): Promise<void> {
  const bytes = 'folder' in page ? await bytesOf(join(page.folder, 'index.html')) : undefined
  if (bytes !== undefined) return send(context, { status: 200, bytes, type: TYPES['.html'], isForever: false })
  const reason = 'reason' in page ? page.reason : `There is no index.html in ${page.folder}.`
  return send(context, { status: 503, bytes: plainPage(reason), type: TYPES['.html'], isForever: false })
}

export async function sendAsset(context: RequestContext, page: ConsolePage): Promise<void> {
  const { file = '' } = context.params
  const type = TYPES[extname(file)]
  const isName = /^[A-Za-z0-9][\w.-]*$/.test(file) && !file.includes('..') && type !== undefined
  const bytes = isName && 'folder' in page ? await bytesOf(join(page.folder, 'assets', file)) : undefined
  if (bytes === undefined) throw new Fault('not_found', { facts: { name: 'such file' } })
  return send(context, { status: 200, bytes, type, isForever: HASHED.test(file) })
}

export const CONSOLE_HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'X-Frame-Options': 'DENY',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-DNS-Prefetch-Control': 'off',
  'Permissions-Policy': 'clipboard-write=(self), camera=(), microphone=(), geolocation=()',
} as const

// ---- details, in the order they are used above ----

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.json': 'application/json',
  '.map': 'application/json',
  '.woff2': 'font/woff2',
  '.webmanifest': 'application/manifest+json',
}

/** A name with a hash of the content, as esbuild writes it. */
const HASHED = /-[A-Z0-9]{8}\./

/** Undefined if there is no such file, also while a new build replaces the folder. */
const bytesOf = (path: string): Promise<Buffer | undefined> =>
  readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR' || error.code === 'EISDIR') return undefined
    throw error
  })

type Answer = {
  readonly status: number
  readonly bytes: Buffer
  readonly type: string | undefined
  readonly isForever: boolean
}

function send({ req, res, method }: RequestContext, { status, bytes, type = '', isForever }: Answer): void {
  const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
  const isKnown = status === 200 && (req.headers['if-none-match'] ?? '').split(/\s*,\s*/).includes(etag)
  res.writeHead(isKnown ? 304 : status, {
    ...CONSOLE_HEADERS,
    'Cache-Control': isForever ? 'public, max-age=31536000, immutable' : 'no-cache',
    ETag: etag,
    ...(isKnown ? {} : { 'Content-Type': type, 'Content-Length': String(bytes.length) }),
  })
  res.end(isKnown || method === 'HEAD' ? undefined : bytes)
}

/** No style and no script: the headers allow neither inside a page. */
const plainPage = (reason: string): Buffer =>
  Buffer.from(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Breakfall</title>
<h1>The console is not available</h1>
<p>The daemon works, and so do its API and the <code>breakfall</code> command.</p>
<pre>${escaped(reason)}</pre>
</html>
`)

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)

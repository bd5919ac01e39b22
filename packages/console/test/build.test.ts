/** The built page: small, without a schema library, nothing from elsewhere, and built only when something changed. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { buildConsole } from '../build.mjs'

const KB = 1_000

test('the page keeps its budgets, and zod is not in it', async () => {
  const folder = await buildConsole()
  const assets = join(folder, 'assets')
  const size = (start: string): number =>
    readdirSync(assets)
      .filter((name) => name.startsWith(start))
      .reduce((sum, name) => sum + gzipSync(readFileSync(join(assets, name))).length, 0)
  const page = readFileSync(join(folder, 'index.html'), 'utf8')
  const first = [...page.matchAll(/src="\/assets\/([^"]+)"/g)].map(([, name]) => name)
  assert.equal(first.length, 1, 'one script')
  assert.ok(size('main-') <= 60 * KB, `initial JavaScript: ${size('main-')} bytes`)
  assert.ok(size('style-') <= 12 * KB, `CSS: ${size('style-')} bytes`)
  const later = size('later-')
  assert.ok(later > 10 * KB && later <= 18 * KB, `Markdown and diff, after the first paint: ${later} bytes`)
  const { inputs } = JSON.parse(readFileSync(join(folder, '.meta.json'), 'utf8')) as { inputs: Record<string, unknown> }
  assert.deepEqual(
    Object.keys(inputs).filter((path) => path.includes('node_modules/zod')),
    [],
  )
  assert.doesNotMatch(page, /https?:/)
  for (const name of readdirSync(assets)) assert.match(name, /-[A-Z0-9]{8}\.(?:js|css|svg)$/)
})

test('the page makes its calls, retries and counts events with the client, and takes only those parts of it', async () => {
  const folder = await buildConsole()
  const { inputs } = JSON.parse(readFileSync(join(folder, '.meta.json'), 'utf8')) as { inputs: Record<string, unknown> }
  const taken = Object.keys(inputs).flatMap((path) => /client\/src\/(.+)\.ts$/.exec(path)?.[1] ?? [])
  for (const part of ['core', 'http', 'call-fault', 'position', 'calls/turns']) assert.ok(taken.includes(part), part)
  const source = new URL('../src/', import.meta.url)
  for (const name of readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.tsx?$/.test(file),
  )) {
    const text = readFileSync(new URL(name, source), 'utf8')
    if (name !== join('link', 'api.ts')) assert.doesNotMatch(text, /\bfetch\(|\bEventSource\b/, name)
    if (name !== join('link', 'socket.ts')) assert.doesNotMatch(text, /new WebSocket\(/, name)
  }
})

test('a second build does nothing, and two at once leave one whole page', async () => {
  const folder = await buildConsole()
  const before = statSync(join(folder, 'index.html')).mtimeMs
  await Promise.all([buildConsole(), buildConsole()])
  assert.equal(statSync(join(folder, 'index.html')).mtimeMs, before)
})

test('an install without development packages has everything that the page is built from, and git ignores what is built', async () => {
  const folder = await buildConsole()
  const root = new URL('../../../', import.meta.url)
  const { packages } = JSON.parse(readFileSync(new URL('package-lock.json', root), 'utf8')) as {
    packages: Record<string, { dev?: boolean }>
  }
  const { inputs } = JSON.parse(readFileSync(join(folder, '.meta.json'), 'utf8')) as { inputs: Record<string, unknown> }
  const used = Object.keys(inputs).flatMap(
    (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(join('packages/console', path))?.[0] ?? [],
  )
  assert.ok(used.includes('node_modules/preact'), used.join(' '))
  for (const name of new Set([...used, 'node_modules/esbuild']))
    assert.equal(packages[name]?.dev ?? packages[name] === undefined, false, name)
  const ignored = readFileSync(new URL('.gitignore', root), 'utf8').split('\n')
  for (const line of ['dist/', '.dist-*/']) assert.ok(ignored.includes(line), line)
})

test('no HTML string is made anywhere: the sources name none of the functions that take one', () => {
  const source = new URL('../src/', import.meta.url)
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name))
  assert.ok(files.length > 40)
  for (const name of files)
    assert.doesNotMatch(
      readFileSync(new URL(name, source), 'utf8'),
      /innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|DOMParser|\beval\(/,
      name,
    )
})

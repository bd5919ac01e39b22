/** The files of a workspace over raw HTTP: atomic writes, ETags and ranges, and nothing outside. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { assertProblem, BOXES, ISO, type Json, WireRunner } from './runner-process.ts'
import { LIMIT } from '../../test/kit/wait.ts'

let runner: WireRunner
let box: string
let files: string

before(async () => {
  runner = await WireRunner.start({ flags: ['--allow-isolation', 'process'] })
  box = await runner.box()
  files = `${BOXES}/${box}/files`
})
after(() => runner[Symbol.asyncDispose]())

const done = (status: number): void => assert.ok(status >= 200 && status < 300, `answered ${status}`)
/** Checks for a refusal: a 4xx with a complete problem. */
const refused = (answer: Json, what: string): void => {
  assert.ok(answer.status >= 400 && answer.status < 500, `${what}: ${answer.status} ${answer.text}`)
  assertProblem(answer, answer.status, answer.json.category)
}

test('an uploaded file can be read byte for byte, is visible in the box, and is gone after delete', LIMIT, async () => {
  const bytes = randomBytes(200_000)
  const put = await runner.put(`${files}/deep/er/data.bin`, bytes)
  done(put.status)
  const got = await runner.get(`${files}/deep/er/data.bin`)
  assert.equal(got.status, 200)
  assert.deepEqual(got.bytes, bytes)
  assert.equal(got.headers['content-length'], '200000')
  assert.ok(put.headers.etag)
  assert.equal(got.headers.etag, put.headers.etag)
  const sum = createHash('sha256').update(bytes).digest('hex')
  assert.match(await runner.shell(box, 'sha256sum deep/er/data.bin'), new RegExp(`^${sum} `))
  await runner.shell(box, 'printf changed > deep/er/data.bin')
  const changed = await runner.get(`${files}/deep/er/data.bin`)
  assert.equal(changed.text, 'changed')
  assert.notEqual(changed.headers.etag, put.headers.etag)
  assert.equal((await runner.delete(`${files}/deep/er/data.bin`)).status, 204)
  assertProblem(await runner.get(`${files}/deep/er/data.bin`), 404, 'file_not_found')
  assertProblem(await runner.delete(`${files}/deep/er/data.bin`), 404, 'file_not_found')
})

test('names may contain spaces, symbols and letters of any script', LIMIT, async () => {
  for (const name of [
    'a b.txt',
    'ä-日本-🥋',
    'per%cent',
    'q?x#y',
    'quote"\'',
    '-rf',
    'a\nb',
    '..hidden',
    'a..b',
    '*',
  ]) {
    done((await runner.put(`${files}/names/${encodeURIComponent(name)}`, name)).status)
    assert.equal((await runner.get(`${files}/names/${encodeURIComponent(name)}`)).text, name)
    const seen = await runner.run(box, { command: ['cat', `names/${name}`] })
    assert.equal(await runner.output(box, seen.execId), name)
  }
})

test('an empty file can be stored', LIMIT, async () => {
  done((await runner.put(`${files}/empty`, '')).status)
  const got = await runner.get(`${files}/empty`)
  assert.equal(got.status, 200)
  assert.equal(got.bytes.length, 0)
})

test('If-Match allows a change only to the version that was read, else 412 and nothing changes', LIMIT, async () => {
  const first = (await runner.put(`${files}/guarded`, 'one')).headers.etag ?? ''
  assert.match(first, /^(W\/)?".+"$/)
  const second = await runner.put(`${files}/guarded`, 'two', { headers: { 'if-match': first } })
  done(second.status)
  const stale = { headers: { 'if-match': first } }
  assertProblem(await runner.put(`${files}/guarded`, 'three', stale), 412, 'precondition_failed')
  assertProblem(await runner.delete(`${files}/guarded`, stale), 412, 'precondition_failed')
  assertProblem(
    await runner.put(`${files}/not-there`, 'x', { headers: { 'if-match': '*' } }),
    412,
    'precondition_failed',
  )
  assert.equal((await runner.get(`${files}/guarded`)).text, 'two')
  assertProblem(await runner.get(`${files}/not-there`), 404, 'file_not_found')
  assert.equal(
    (await runner.delete(`${files}/guarded`, { headers: { 'if-match': second.headers.etag ?? '' } })).status,
    204,
  )
})

test('of many concurrent conditional writes one succeeds, and the others get 412', LIMIT, async () => {
  const etag = (await runner.put(`${files}/contested`, 'start')).headers.etag ?? ''
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) =>
      runner.put(`${files}/contested`, `by ${i}`, { headers: { 'if-match': etag } }),
    ),
  )
  const winners = answers.filter(({ status }) => status < 300)
  assert.equal(winners.length, 1)
  for (const answer of answers.filter(({ status }) => status >= 300)) assertProblem(answer, 412, 'precondition_failed')
})

test('a put is atomic: no reader sees half a file', LIMIT, async () => {
  const versions = ['a', 'b'].map((letter) => letter.repeat(400_000))
  await runner.put(`${files}/whole`, versions[0] ?? '')
  let writing = true
  const writer = (async () => {
    for (let i = 0; i < 25; i++) done((await runner.put(`${files}/whole`, versions[i % 2] ?? '')).status)
    writing = false
  })()
  while (writing) assert.ok(versions.includes((await runner.get(`${files}/whole`)).text))
  await writer
  assert.ok(!(await runner.shell(box, 'ls -A')).includes('tmp'), 'no temporary file is left')
})

test('a put that is cut off changes nothing', LIMIT, async () => {
  await runner.put(`${files}/cut`, 'before')
  const { host } = new URL(runner.url)
  const before = (await runner.get(`${files}?glob=*`)).text
  const head = `PUT ${files}/cut HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${runner.token}\r\n`
  const socket = connect(Number(new URL(runner.url).port), '127.0.0.1')
  await new Promise<void>((resolve) => {
    socket.write(`${head}Content-Length: 1000\r\n\r\nhalf of it`, () => resolve())
  })
  socket.destroy()
  const deep = connect(Number(new URL(runner.url).port), '127.0.0.1')
  deep.write(`${head.replace('/cut ', '/not/there/yet ')}Content-Length: 1000\r\n\r\nhalf of it`)
  for (let left = 0; left === 0;) left = (await runner.get(`${files}?glob=.breakfall-*`)).json.files.length // it has started
  deep.destroy()
  assert.equal((await runner.get(`${files}/cut`)).text, 'before')
  assert.equal((await runner.get(`${files}?glob=cut*`)).json.files.length, 1)
  let left: string[]
  do left = (await runner.get(`${files}?glob=.*`)).json.files.map(({ path }: { path: string }) => path)
  while (left.length > 0) // the temporary file goes, too
  assert.equal((await runner.get(`${files}?glob=*`)).text, before, 'no folder was created for it either')
})

test('a partial put or one with a content encoding is refused and changes nothing', LIMIT, async () => {
  await runner.put(`${files}/partly`, 'before')
  const part = { headers: { 'content-range': 'bytes 0-1/6' } }
  assertProblem(await runner.put(`${files}/partly`, 'xx', part), 400, 'invalid_request')
  const encoded = { headers: { 'content-encoding': 'gzip' } }
  assertProblem(await runner.put(`${files}/partly`, 'xx', encoded), 415, 'unsupported_media_type')
  assert.equal((await runner.get(`${files}/partly`)).text, 'before')
})

test('a file that replaces a link gets default permissions, and an existing file keeps its own', LIMIT, async () => {
  await runner.shell(box, 'ln -s nowhere was-link; echo x >was-file; chmod 4750 was-file')
  for (const name of ['was-link', 'was-file']) done((await runner.put(`${files}/${name}`, 'new')).status)
  assert.equal(await runner.shell(box, 'stat -c "%a %F" was-link was-file'), '644 regular file\n750 regular file\n')
})

test('a read may name the version it has or wants: 304, 412, and a range of that version only', LIMIT, async () => {
  const etag = (await runner.put(`${files}/versions`, '0123456789')).headers.etag ?? ''
  const read = (headers: Record<string, string>) => runner.get(`${files}/versions`, { headers })
  for (const known of [etag, `"other", ${etag}`, `W/${etag}`, '*']) {
    const answer = await read({ 'if-none-match': known })
    assert.deepEqual([answer.status, answer.text, answer.headers.etag], [304, '', etag], known)
  }
  assert.equal((await read({ 'if-none-match': '"other"' })).status, 200)
  assertProblem(await read({ 'if-match': '"other"' }), 412, 'precondition_failed')
  assert.equal((await read({ 'if-match': `"other", ${etag}` })).status, 200)
  assert.deepEqual(
    await Promise.all(
      [etag, '"other"', 'Mon, 16 Nov 2026 00:00:00 GMT'].map(async (version) => {
        const answer = await read({ range: 'bytes=2-3', 'if-range': version })
        return [answer.status, answer.text]
      }),
    ),
    [
      [206, '23'],
      [200, '0123456789'],
      [200, '0123456789'],
    ],
  )
  const listed = { headers: { 'if-match': `"other", ${etag}` } }
  done((await runner.put(`${files}/versions`, 'by list', listed)).status)
})

test('ranges of a file are 206, and a range beyond its end is 416', LIMIT, async () => {
  await runner.put(`${files}/ranged`, '0123456789')
  for (const [range, text, described] of [
    ['bytes=0-0', '0', 'bytes 0-0/10'],
    ['bytes=5-', '56789', 'bytes 5-9/10'],
    ['bytes=-3', '789', 'bytes 7-9/10'],
  ] as const) {
    const part = await runner.get(`${files}/ranged`, { headers: { range } })
    assert.equal(part.status, 206)
    assert.equal(part.text, text)
    assert.equal(part.headers['content-range'], described)
  }
  assertProblem(await runner.get(`${files}/ranged`, { headers: { range: 'bytes=10-' } }), 416, 'range_not_satisfiable')
})

test('a list contains path, kind, bytes and time, and a glob filters it', LIMIT, async () => {
  const own = await runner.box()
  await runner.shell(
    own,
    'mkdir -p src/in; printf abc > src/a.ts; printf abcd > src/in/b.ts; touch c.md; ln -s c.md link',
  )
  const list = async (query = ''): Promise<Json[]> => (await runner.get(`${BOXES}/${own}/files${query}`)).json.files
  const paths = (entries: Json[]): string[] => entries.map(({ path }): string => path).toSorted()
  const ts = await list(`?glob=${encodeURIComponent('**/*.ts')}`)
  assert.deepEqual(paths(ts), ['src/a.ts', 'src/in/b.ts'])
  for (const entry of ts) {
    assert.equal(entry.kind, 'file')
    assert.equal(entry.bytes, entry.path === 'src/a.ts' ? 3 : 4)
    assert.match(entry.modifiedAt, ISO)
  }
  assert.deepEqual(paths(await list('?glob=*.md')), ['c.md'])
  assert.deepEqual(paths(await list('?glob=nothing*')), [])
  const all = await list()
  assert.ok(paths(all).includes('c.md'))
  assert.notEqual(all.find(({ path }) => path === 'link')?.kind, 'file')
  for (const glob of ['../*', '/etc/*', '**/../../*']) {
    const answer = await runner.get(`${BOXES}/${own}/files?glob=${encodeURIComponent(glob)}`)
    if (answer.status === 200) assert.deepEqual(answer.json.files, [])
    else refused(answer, glob)
  }
})

test(
  'a path with .., an absolute path or a NUL is refused, and nothing outside is read or written',
  LIMIT,
  async () => {
    for (const path of [
      '/../x',
      '/../../../../../../etc/passwd',
      '/%2e%2e/x',
      '/..%2f..%2f..%2f..%2fetc%2fpasswd',
      '/a/../../x',
      '/a/%2e%2e/%2e%2e/x',
      '//etc/passwd',
      '/%2fetc%2fpasswd',
      '/a%00b',
      '/.',
      '/..',
      '/%2e%2e',
      `/${'d/'.repeat(3000)}x`,
      `/${'n'.repeat(300)}`,
    ])
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const answer = await runner.ask(method, `${files}${path}`, method === 'PUT' ? { body: 'escaped' } : {})
        refused(answer, `${method} ${path.slice(0, 60)}`)
        assert.ok(!answer.text.includes('root:'), path)
      }
  },
)

test('a link in the workspace cannot lead outside it', LIMIT, async () => {
  const outside = join(runner.folder, 'outside')
  mkdirSync(outside)
  writeFileSync(join(outside, 'secret'), 'secret')
  await runner.shell(
    box,
    `ln -sfn ${outside} out; ln -sfn ${outside}/secret file; ln -sfn /etc etc; ln -sfn .. up; ln -sfn /proc/self/root root; mkdir -p d; ln -sfn ../../.. d/far`,
  )
  for (const path of [
    'out/secret',
    'out/new',
    'file',
    'etc/passwd',
    'up/x',
    'root/etc/passwd',
    'd/far/x',
    'out',
    'etc',
  ]) {
    const got = await runner.get(`${files}/${path}`)
    refused(got, `GET ${path}`)
    const put = await runner.put(`${files}/${path}/below`, 'escaped')
    refused(put, `PUT ${path}/below`)
  }
  for (const path of ['out/new', 'out/secret', 'etc/new', 'root/tmp/new'])
    refused(await runner.put(`${files}/${path}`, 'x'), path)
  refused(await runner.delete(`${files}/out/secret`), 'DELETE through a link')
  await runner.put(`${files}/file`, 'replaced')
  assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret')
  assert.ok(!existsSync(join(outside, 'new')) && !existsSync(join(outside, 'below')))
  assert.ok(!(await runner.get(`${files}?glob=${encodeURIComponent('**')}`)).text.includes('secret'))
})

test('a folder and a pipe are refused as files immediately, and nothing hangs', LIMIT, async () => {
  await runner.shell(box, 'mkdir -p folder/in; mkfifo -m 666 pipe')
  for (const path of ['folder', 'pipe']) {
    refused(await runner.get(`${files}/${path}`), `GET ${path}`)
    if (path === 'folder') refused(await runner.put(`${files}/${path}`, 'x'), `PUT ${path}`)
  }
  await runner.put(`${files}/plain`, 'x')
  refused(await runner.put(`${files}/plain/below`, 'x'), 'PUT below a file')
  refused(await runner.get(`${files}/plain/below`), 'GET below a file')
})

test('a file over the limit is 413 with the limit, before it is sent', LIMIT, async () => {
  const { host } = new URL(runner.url)
  const answer = await runner.raw(
    `PUT ${files}/huge HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${runner.token}\r\nConnection: close\r\nContent-Length: 67108865\r\n\r\n`,
  )
  assert.match(answer, /^HTTP\/1\.1 413 /)
  assert.match(answer, /"category":"payload_too_large"/)
  assert.match(answer, /67108864|64 MiB/)
  assertProblem(await runner.get(`${files}/huge`), 404, 'file_not_found')
})

test('a body without a length is counted as it arrives, and is 413 once it is too large', LIMIT, async () => {
  const { host } = new URL(runner.url)
  const head = `PUT ${files}/chunked HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${runner.token}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n`
  assert.match(await runner.raw(`${head}5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n`), /^HTTP\/1\.1 20[014] /)
  assert.equal((await runner.get(`${files}/chunked`)).text, 'hello world')
})

test('the files of a stopped box can still be read', LIMIT, async () => {
  const own = await runner.box()
  await runner.put(`${BOXES}/${own}/files/kept`, 'kept')
  await runner.post(`${BOXES}/${own}/stop`, {})
  const answer = await runner.get(`${BOXES}/${own}/files/kept`)
  if (answer.status === 200) assert.equal(answer.text, 'kept')
  else assertProblem(answer, 409, 'box_stopped')
})

test('links in a host folder are not followed either, and the host’s files stay unchanged', LIMIT, async () => {
  const home = join(runner.folder, 'host')
  const allowed = join(home, 'allowed')
  mkdirSync(join(allowed, 'project'), { recursive: true })
  writeFileSync(join(home, 'secret'), 'secret')
  symlinkSync('../..', join(allowed, 'project', 'up'))
  await using host = await WireRunner.start({ flags: ['--allow-isolation', 'process', '--allow-workspace', allowed] })
  const own = await host.box({ workspace: join(allowed, 'project') })
  for (const path of ['up/secret', '../../secret', '%2e%2e/%2e%2e/secret']) {
    refused(await host.get(`${BOXES}/${own}/files/${path}`), path)
    refused(await host.put(`${BOXES}/${own}/files/${path}`, 'changed'), path)
  }
  done((await host.put(`${BOXES}/${own}/files/fine.txt`, 'fine')).status)
  assert.equal(readFileSync(join(allowed, 'project', 'fine.txt'), 'utf8'), 'fine')
  assert.equal(readFileSync(join(home, 'secret'), 'utf8'), 'secret')
})

import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { SessionEventOf } from '@breakfall/wire'
import { Output } from '../src/render/output.ts'
import { serverLine, StatusLine } from '../src/render/status-line.ts'

const event = (line?: string): SessionEventOf<'model-server'> => ({
  type: 'model-server',
  seq: 3,
  sessionId: 's',
  turnId: 't',
  at: '2026-11-16T12:00:12.300Z',
  state: 'loading',
  since: '2026-11-16T12:00:00.000Z',
  ...(line === undefined ? {} : { line }),
})

/** What appears on stdout. */
function shown(isTTY: boolean, show: (status: StatusLine, out: Output) => void): string {
  const stdout = Object.assign(new PassThrough(), { isTTY, columns: 60 })
  const out = new Output({ json: false, stdout, stderr: new PassThrough() })
  using status = new StatusLine(out)
  show(status, out)
  return String(stdout.read() ?? '')
}

test('says what the model server is doing, for how long, and its last line', () => {
  assert.equal(serverLine(event('load_tensors: 3 of 10')), 'the model server: loading for 12 s: load_tensors: 3 of 10')
  assert.equal(serverLine(event(), 2_000), 'the model server: loading for 14 s')
})

test('is one line after another without a terminal', () => {
  const text = shown(false, (status) => {
    status.show(event('one'))
    status.show(event('two'))
  })
  assert.equal(text, '… the model server: loading for 12 s: one\n… the model server: loading for 12 s: two\n')
})

test('is one line that changes at a terminal, and stays when something else follows', () => {
  const text = shown(true, (status, out) => {
    status.show(event('one'))
    status.show(event('two'))
    out.line('an answer')
    status.show(event('three'))
  })
  assert.equal(text.split('\u001b[1A\u001b[J').length - 1, 1, JSON.stringify(text))
  assert.match(text, /two.*\n.*an answer\n.*three/s)
})

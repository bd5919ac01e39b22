import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { after, before, describe, it } from 'node:test'
import { type ChildEvent, supervise, type SuperviseSpec } from '../src/index.ts'
import type { Launch } from '../src/spec.ts'
import { faultBy, program } from './child-fixture.ts'

let folder = ''
before(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'breakfall-start-'))
})
after(() => rmSync(folder, { recursive: true, force: true }))

function file(name: string, content: string | Uint8Array, mode = 0o755): string {
  const at = path.join(folder, name)
  writeFileSync(at, content)
  chmodSync(at, mode)
  return at
}

function elf(machine: number): Buffer {
  const head = Buffer.alloc(64)
  head.write('\x7fELF', 'latin1')
  head.set([2, 1, 1], 4)
  head.writeUInt16LE(2, 16)
  head.writeUInt16LE(machine, 18)
  return head
}

const CASES: readonly [string, () => SuperviseSpec, string, RegExp][] = [
  [
    'a missing command',
    () => ({ command: 'no-such-program-xyz' }),
    'not_found',
    /no program no-such-program-xyz on the PATH/,
  ],
  ['a missing file', () => ({ command: './gone', cwd: folder }), 'not_found', /there is no file .*gone/],
  ['a missing folder', () => ({ command: 'true', cwd: path.join(folder, 'nope') }), 'cwd_missing', /no folder .*nope/],
  [
    'a folder that is a file',
    () => ({ command: 'true', cwd: file('plain', '') }),
    'cwd_not_directory',
    /plain is not a folder/,
  ],
  [
    'a file that is not executable',
    () => ({ command: file('notexec.sh', '#!/bin/sh\n', 0o644) }),
    'not_executable',
    /notexec.sh is not executable/,
  ],
  ['a folder as the command', () => ({ command: folder }), 'not_executable', /is not executable/],
  [
    'a missing interpreter',
    () => ({ command: file('badint.sh', '#!/no/such/interpreter\n') }),
    'bad_interpreter',
    /needs \/no\/such\/interpreter, which does not exist/,
  ],
  [
    'an interpreter that env does not find',
    () => ({ command: file('badenv', '#!/usr/bin/env nope-node\n') }),
    'bad_interpreter',
    /needs nope-node/,
  ],
  [
    'a script with Windows line endings',
    () => ({ command: file('crlf.sh', '#!/bin/sh\r\nexit 0\r\n') }),
    'bad_interpreter',
    /Windows line endings/,
  ],
  [
    'a binary for another architecture',
    () => ({ command: file('foreign', elf(process.arch === 's390x' ? 62 : 22)) }),
    'wrong_architecture',
    /another architecture/,
  ],
  [
    'a binary that was cut off',
    () => ({ command: file('cutoff', elf({ x64: 62, arm64: 183, arm: 40, s390x: 22 }[process.arch as string] ?? 0)) }),
    'wrong_architecture',
    /damaged/,
  ],
  ...(
    [
      ['args', { args: 'x' }, /launch\(\)\.args must be an array/],
      ['one arg', { args: ['a', 5] }, /launch\(\)\.args\[1\] must be/],
      ['env', { env: 5 }, /launch\(\)\.env must be/],
      ['ready', { ready: { kind: 'magic' } }, /launch\(\)\.ready\.kind must be/],
      ['field', { arguments: [] }, /launch\(\)\.arguments must be/],
      ['kind of answer', 5, /launch\(\) must be an object/],
    ] as const
  ).map(([what, launched, said]): [string, () => SuperviseSpec, string, RegExp] => [
    `a launch hook that gives a wrong ${what}`,
    () => ({ command: 'true', launch: () => launched as Launch }),
    'other',
    said,
  ]),
  ['a damaged binary', () => ({ command: file('cut', '\x7fELF\x02') }), 'wrong_architecture', /damaged/],
  [
    'arguments that are too long',
    () => ({ command: 'true', args: ['x'.repeat(3_000_000)] }),
    'argument_too_long',
    /too long for this system/,
  ],
]

describe('a start that cannot work', () => {
  for (const [what, spec, reason, sentence] of CASES) {
    it(`because of ${what} is process_start_failed with reason ${reason}, at once, and is not retried`, async () => {
      const child = supervise(spec())
      const states: string[] = []
      child.on((event: ChildEvent) => {
        if (event.type === 'state') states.push(event.state.status)
      })
      const fault = await faultBy(child.start())
      assert.equal(fault.category, 'process_start_failed')
      assert.equal(fault.report.reason, reason)
      assert.equal(fault.report.next, 'never')
      assert.match(fault.error, sentence)
      assert.deepEqual(states, ['starting', 'failed', 'given_up'])
      assert.equal(child.state.status === 'given_up' && child.state.reason, 'never_retry')
      assert.equal(child.report?.kind, 'spawn_failed')
      assert.equal(child.report?.phase, 'spawn')
      await child.stop()
    })
  }

  it('gives every later request the same fault', async () => {
    const child = supervise({ command: 'no-such-program-xyz' })
    const fault = await faultBy(child.start())
    assert.throws(
      () => child.request(),
      (error: unknown) => (error as { category?: string }).category === fault.category,
    )
    assert.equal((await faultBy(child.ready())).category, 'process_start_failed')
  })

  it('works once the missing file is there', async () => {
    const at = path.join(folder, 'comes-later.sh')
    const child = supervise({ command: at, ready: { kind: 'line', pattern: /^up$/ } })
    await faultBy(child.start())
    file('comes-later.sh', '#!/bin/sh\necho up\nread -r _\n')
    await child.start()
    assert.equal(child.state.status, 'ready')
    await child.stop()
  })

  it('because a hook found no free descriptor is retried', async () => {
    let calls = 0
    await using child = supervise({
      command: program('never-gets-ready.sh'),
      stdin: 'ignore',
      limits: { backoffMs: 1 },
      launch: () => {
        calls += 1
        if (calls === 1) throw Object.assign(new Error('too many open files'), { code: 'EMFILE' })
        return {}
      },
    })
    const fault = await faultBy(child.start())
    assert.deepEqual([fault.report.reason, fault.report.next], ['resources', 'restart'])
    await child.ready()
  })

  it(
    'in a folder without permission says so',
    { skip: process.getuid?.() === 0 ? false : 'is run as root only' },
    async () => {
      const closed = path.join(folder, 'closed')
      mkdirSync(path.join(closed, 'inner'), { recursive: true })
      chmodSync(folder, 0o755)
      chmodSync(closed, 0o700)
      const folders = [closed, path.join(closed, 'inner')]
      const options = { uid: 65_534, gid: 65_534, cwd: '/' }
      const { stdout } = await promisify(execFile)(process.execPath, [program('tries-folders.ts'), ...folders], options)
      assert.deepEqual(
        JSON.parse(stdout),
        folders.map((cwd) => ['cwd_forbidden', `${cwd} cannot be entered: permission denied`]),
      )
    },
  )

  it('includes a hook of the caller that fails first', async () => {
    const child = supervise({
      command: program('never-gets-ready.sh'),
      launch: () => {
        throw new Error('no free port')
      },
    })
    const fault = await faultBy(child.start())
    assert.equal(fault.category, 'process_start_failed')
    assert.match(fault.error, /no free port/)
    assert.match(String((fault.cause as Error).message), /no free port/)
  })
})

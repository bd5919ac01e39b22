/** `breakfall undo`, `diff` and `processes` after a run: with a person who edits meanwhile, and a server that still runs. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { ask, bash, say } from '../answers.ts'
import { hasSandbox } from '../breakfall.ts'
import { Desk } from './desk.ts'

const skip = hasSandbox ? false : 'needs bubblewrap'

test(
  'what a run did to files can be seen, undone and redone, turn by turn, and never over an edit of yours',
  { ...LIMIT, skip },
  async () => {
    await using desk = await Desk.start([], { a: 'one\n', 'src/b': 'one\n' })
    const text = (name: string): string => readFileSync(join(desk.folder, name), 'utf8')
    desk.model.script('any', [
      ask([bash('echo two >a; rm src/b; mkdir new; echo n >new/file')]),
      say('done'),
      ask([bash('echo three >src/b')]),
      say('done'),
    ])
    const first = await desk.run(['go'])
    assert.equal(first.code, 0, first.stderr)
    assert.deepEqual(first.result.filesChanged, ['a', 'new/file', 'src/b'], 'also what a command did')
    assert.equal(first.result.filesUnknown, undefined)
    const shown = await desk.command(['show', String(first.result.sessionId)])
    assert.match(shown.lines.join('\n'), /^ {2}changed {2}a, new\/file, src\/b$/m)
    const patch = await desk.command(['diff'])
    assert.match(patch.lines.join('\n'), /^-one\n\+two$/m)
    const preview = await desk.command(['undo', '--dry-run'])
    assert.match(
      preview.lines.join('\n'),
      /M a\nD new\/file\nA src\/b\nwould restore 2 and remove 1\. This was a preview/,
    )
    assert.equal(text('a'), 'two\n')

    writeFileSync(join(desk.folder, 'a'), 'mine\n')
    const refused = await desk.command(['undo'])
    assert.equal(refused.code, 1)
    assert.match(
      refused.stderr,
      /conflict {2}a\n[^]*changes made outside the box: a\. Nothing was changed\. .*--path FILE.*--force/,
    )
    assert.deepEqual([text('a'), text('new/file')], ['mine\n', 'n\n'])
    const some = await desk.command(['undo', '--path', 'src'])
    assert.match(some.lines.join('\n'), /1 restored, 0 removed\. To take this back: breakfall undo --redo/)
    assert.equal(text('src/b'), 'one\n')

    const second = await desk.run(['more', '--continue'])
    assert.deepEqual(second.result.filesChanged, ['src/b'], 'of this turn only')
    assert.equal(second.code, 0, second.stderr)
    assert.equal(text('src/b'), 'three\n')
    assert.match(JSON.stringify(second.events), /the user brought files back to an earlier state/)
    const both = await desk.command(['undo', '--turn', String(first.result.turnId), '--force', '--json'])
    assert.equal(both.code, 0, both.stderr)
    assert.deepEqual([text('a'), text('src/b'), existsSync(join(desk.folder, 'new'))], ['one\n', 'one\n', false])
    const redone = await desk.command(['undo', '--redo'])
    assert.equal(redone.code, 0, redone.stderr)
    assert.deepEqual([text('a'), text('src/b'), text('new/file')], ['mine\n', 'three\n', 'n\n'])
  },
)

test(
  'a background process outlives its run, which says how to stop it; undo names it, and it can be stopped without a daemon',
  { ...LIMIT, skip },
  async () => {
    await using desk = await Desk.start()
    const { arguments: given } = bash('echo up; touch made; exec sleep 3000')
    const web = { tool: 'bash', arguments: { ...given, background: { name: 'web', ready: { text: 'up' } } } }
    desk.model.script('any', [ask([web]), say('done')])
    const run = await desk.command(['run', 'go'])
    assert.equal(run.code, 0, run.stderr)
    const stop = /still running: web; to stop it: breakfall (processes stop web --session \S+)$/m.exec(
      run.lines.join('\n'),
    )
    assert.ok(stop?.[1], run.lines.join('\n'))
    const listed = await desk.command(['processes'])
    assert.match(listed.lines.join('\n'), /^web {2,}running {2,}- {2,}[\w-]{36} {2}\//m, listed.stderr)
    const shown = await desk.command(['show', stop[1].split(' ').at(-1) ?? ''])
    assert.ok(shown.lines.join('\n').includes(`still running: web; to stop it: breakfall ${stop[1]}`), shown.stderr)
    const doctor = await desk.command(['doctor'])
    assert.match(doctor.lines.join('\n'), /1 background process of your sessions still running: web/)

    const refused = await desk.command(['undo'])
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /the background process web is running[^]*breakfall processes stop web --session /)
    const unknown = await desk.command(['undo', '--path', 'nosuch', '--dry-run'])
    assert.equal(unknown.code, 1, unknown.lines.join('\n'))
    assert.match(unknown.stderr, /There is no nosuch in the workspace/)

    const nobody = await desk.command(['processes', 'stop', 'nobody'])
    assert.equal(nobody.code, 1)
    assert.match(nobody.stderr, /No background process nobody is running/)
    const stopped = await desk.command(stop[1].split(' '))
    assert.deepEqual([stopped.code, stopped.lines], [0, ['web is stopped: killed by request']], stopped.stderr)
    assert.deepEqual((await desk.command(['processes'])).lines, ['no background process is running'])
    assert.deepEqual(desk.place.leftovers(), [])
    assert.equal((await desk.command(['undo'])).code, 0)
    assert.equal(existsSync(join(desk.folder, 'made')), false)
    const redone = [await desk.command(['undo', '--redo']), await desk.command(['undo', '--list'])]
    assert.match(redone[1]?.lines.join('\n') ?? '', /before an undo {2}1 file\n[^\n]*before a redo {2}0 files$/)
  },
)

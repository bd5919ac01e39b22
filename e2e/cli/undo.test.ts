/** `breakfall undo` and `breakfall diff` after a run, and with a person who edits meanwhile. */
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
    assert.match(preview.lines.join('\n'), /M a\nD new\/file\nA src\/b\n2 restored, 1 removed\. This was a preview/)
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

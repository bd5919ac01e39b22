/** Undoes what a turn did to the files: a preview, the undo, and the redo. */
import { useState } from 'preact/hooks'
import type { VNode } from 'preact'
import type { Undo as UndoRequest, Undone } from '@breakfall/wire'
import { undo } from '@breakfall/client/internal'
import { daemon, operation } from '../link/api.ts'
import { isText, type Json, jsonOf, listOf, textOf } from '../fold/shapes.ts'
import { bytes, counted } from '../text/format.ts'
import { reveal } from '../text/reveal.ts'
import { Action, outcomes } from '../ui/action.tsx'
import { useJson } from '../ui/use-json.ts'

type UndoProps = { readonly sessionId: string; readonly turnId: string }

/** Undoing or redoing: `body` chooses the checkpoint. */
type Preview = { readonly body: UndoRequest; readonly data: Undone }

/** Nothing, if no checkpoint was taken before this turn. */
export function Undo({ sessionId, turnId }: UndoProps): VNode | null {
  const { data } = useJson(operation('GET /v1/sessions/{id}/checkpoints', { id: sessionId }))
  const isThere = listOf(data?.['checkpoints']).some((one) => jsonOf(one)['turnId'] === turnId)
  return isThere ? <Buttons sessionId={sessionId} turnId={turnId} /> : null
}

// ---- details, in the order they are used above ----

function Buttons({ sessionId, turnId }: UndoProps): VNode {
  const [preview, setPreview] = useState<Preview | null>(null)
  const [redo, setRedo] = useState<string | null>(null)
  const subject = `undo:${turnId}`
  const ask = (body: UndoRequest): Promise<Undone> => undo(daemon, sessionId, body)
  const look = async (body: UndoRequest): Promise<string | undefined> => {
    setPreview({ body, data: await ask({ ...body, dryRun: true }) })
    return undefined
  }
  const restore = async (): Promise<string | undefined> => {
    if (preview === null) return undefined
    const isForced = conflictsIn(preview.data).length > 0
    const data = await ask({ ...preview.body, ...(isForced ? { force: true } : {}) })
    setRedo(isText(data['safety']) ? data['safety'] : null)
    setPreview(null)
    return `${counted(listOf(data['files']).length, 'file')} put back.`
  }
  return (
    <div class={preview === null ? 'row' : 'row wide'}>
      {preview === null ? (
        <>
          <Action
            id={subject}
            subject={subject}
            label="undo…"
            pendingLabel="looking…"
            run={() => look({ toTurn: turnId })}
          />
          {redo === null ? null : (
            <Action
              id={`redo:${turnId}`}
              subject={subject}
              label="redo…"
              pendingLabel="looking…"
              run={() => look({ checkpoint: redo })}
            />
          )}
        </>
      ) : (
        <Changes data={preview.data}>
          <Action
            id={`restore:${turnId}`}
            subject={subject}
            label={conflictsIn(preview.data).length > 0 ? 'Overwrite and put back' : 'Put back'}
            pendingLabel="Putting back…"
            kind={conflictsIn(preview.data).length > 0 ? 'danger' : 'primary'}
            run={restore}
          />
          <button type="button" onClick={() => setPreview(null)}>
            Keep as it is
          </button>
        </Changes>
      )}
      <span role="status">{outcomes.value[subject]}</span>
    </div>
  )
}

const conflictsIn = (data: Json): readonly string[] => listOf(data['conflicts']).filter(isText)

const WORDS: Readonly<Record<string, string>> = {
  added: 'restored',
  changed: 'reverted',
  removed: 'removed',
}

const FILES_SHOWN = 20

function Changes({ data, children }: { readonly data: Json; readonly children: VNode[] }): VNode {
  const files = listOf(data['files']).map(jsonOf)
  const conflicts = conflictsIn(data)
  return (
    <div class="card undo" role="group" aria-label="What the undo would change">
      <strong>
        {files.length === 0
          ? 'Nothing differs from before this turn.'
          : `Undo changes ${counted(files.length, 'file')}:`}
      </strong>
      <ul tabIndex={0} aria-label="Files">
        {files.slice(0, FILES_SHOWN).map((file) => (
          <li key={textOf(file['path'])}>
            <code class="isolate">{reveal(textOf(file['path']))}</code>{' '}
            <span class="muted">
              {WORDS[textOf(file['change'])] ?? textOf(file['change'])}
              {typeof file['bytes'] === 'number' ? `, ${bytes(file['bytes'])}` : ''}
            </span>
          </li>
        ))}
        {files.length > FILES_SHOWN ? <li>and {counted(files.length - FILES_SHOWN, 'more file')}</li> : null}
      </ul>
      {conflicts.length === 0 ? null : (
        <p>
          ▲ {counted(conflicts.length, 'file')} changed outside the session since: {conflicts.map(reveal).join(', ')}
        </p>
      )}
      <div class="row">{children}</div>
    </div>
  )
}

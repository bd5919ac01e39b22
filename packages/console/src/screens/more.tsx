/** Pages after the first one, loaded when a person asks for them. */
import type { VNode } from 'preact'
import type { Call } from '@breakfall/client/internal'
import { useEffect, useState } from 'preact/hooks'
import { json } from '../link/api.ts'
import { listOf, textOf } from '../fold/shapes.ts'
import { Action, outcomes } from '../ui/action.tsx'

export type MoreRows = {
  readonly rows: readonly unknown[]
  /** Undefined if there are none. */
  readonly load: (() => Promise<undefined>) | undefined
}

/** `first` is the `next` of the first page. */
export function useMore(call: Call, field: string, first: string): MoreRows {
  const [rows, setRows] = useState<readonly unknown[]>([])
  const [next, setNext] = useState<string | null>(null)
  useEffect(() => {
    setRows([])
    setNext(null)
  }, [call.path])
  const cursor = next ?? first
  if (cursor === '') return { rows, load: undefined }
  const load = async (): Promise<undefined> => {
    const separator = call.path.includes('?') ? '&' : '?'
    const page = await json({ ...call, path: `${call.path}${separator}cursor=${encodeURIComponent(cursor)}` })
    setRows([...rows, ...listOf(page[field])])
    setNext(textOf(page['next']))
  }
  return { rows, load }
}

export function More({ of: { load } }: { readonly of: MoreRows }): VNode | null {
  if (load === undefined) return null
  return (
    <>
      <Action id="more" subject="more" label="Load older ones" pendingLabel="Loading…" run={load} />{' '}
      <span role="status">{outcomes.value['more']}</span>
    </>
  )
}

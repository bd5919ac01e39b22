/** Keeps a part that fails from taking the page with it: one odd value costs one part. Also the button that copies something. */
import { Component, type ComponentChildren, type VNode } from 'preact'
import { useState } from 'preact/hooks'
import { announce } from './announcer.tsx'

type BoundaryProps = { readonly what: string; readonly json?: unknown; readonly children: ComponentChildren }

export class Boundary extends Component<BoundaryProps, { readonly failed: string | null }> {
  override state: { readonly failed: string | null } = { failed: null }

  override componentDidCatch(error: unknown): void {
    this.setState({ failed: error instanceof Error ? error.message : String(error) })
  }

  override render(): ComponentChildren {
    if (this.state.failed === null) return this.props.children
    return (
      <div class="note">
        This part cannot be shown ({this.props.what}: {this.state.failed}).{' '}
        <CopyButton label="copy its JSON" text={() => JSON.stringify(this.props.json ?? null, null, 2)} />
      </div>
    )
  }
}

export function CopyButton({ text, label }: { readonly text: () => string; readonly label: string }): VNode {
  const [state, setState] = useState<'idle' | 'done' | 'failed'>('idle')
  const copy = async (): Promise<void> => {
    const isDone = await copyText(text())
    setState(isDone ? 'done' : 'failed')
    announce(isDone ? `Copied: ${label}.` : `Could not copy ${label}.`)
    setTimeout(() => setState('idle'), 1_500)
  }
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      {state === 'done' ? '✓ copied' : state === 'failed' ? 'could not copy' : label}
    </button>
  )
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return false // the browser refused: said on the button
  }
}

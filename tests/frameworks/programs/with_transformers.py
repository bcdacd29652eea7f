"""Transformers' Trainer, on a language model with random weights."""

import os
import tempfile

import torch
from common import SEED, STEPS, finish, late, settings
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

RANK = int(os.environ["RANK"])
WORDS = 200


class Late(TrainerCallback):
    def on_step_begin(self, *_, **__):
        late(RANK)


class Kept(Trainer):
    losses = []

    def compute_loss(self, *arguments, **named):
        loss = super().compute_loss(*arguments, **named)
        self.losses.append((loss[0] if isinstance(loss, tuple) else loss).item())
        return loss


def main():
    settings()
    configuration = GPT2Config(vocab_size=WORDS, n_positions=32, n_embd=32, n_layer=2, n_head=2)
    generator = torch.Generator().manual_seed(SEED)
    words = torch.randint(WORDS, (2 * 8 * STEPS, 32), generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=STEPS, per_device_train_batch_size=8, use_cpu=True, ddp_backend="gloo",
            report_to=[], save_strategy="no", disable_tqdm=True, seed=SEED, logging_steps=STEPS)
        data = [{"input_ids": row, "labels": row} for row in words]
        trainer = Kept(GPT2LMHeadModel(configuration), arguments, train_dataset=data, callbacks=[Late()])
        trainer.train()
    finish(RANK, trainer.losses)


main()

"""Lightning: its Trainer starts the other rank itself."""

import lightning
import torch
from common import BATCH, STEPS, dataset, late, model, report, settings


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = model()
        self.losses = []

    def training_step(self, batch, index):
        late(self.global_rank)
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.network(inputs), labels)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    settings()
    lightning.seed_everything(7)
    inputs, labels = dataset(0, 2 * STEPS)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=BATCH)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_steps=STEPS, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False)
    module = Module()
    trainer.fit(module, loader)
    report(trainer.global_rank, module.losses)


main()

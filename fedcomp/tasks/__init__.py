"""What is trained: data, partition, model, loss and metric of each task."""
